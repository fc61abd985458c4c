// Command plots draws the benchmarks of docs/benchmarks.md from docs/results/bench.csv, and panels of the
// dashboard from docs/results/monitoring.csv, and what more clusters cost from docs/results/scale.csv. It runs in its own folder, by `make readme`. Each picture names the results that it was drawn from by their SHA-256, so that a
// test notices a picture that is older than its results.
package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/csv"
	"fmt"
	"image/color"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

const (
	root    = "../../.."
	results = "docs/results/bench.csv"
)

// chart is one picture: a group of bars for each case, one bar for each answerer.
type chart struct {
	file      string
	title     string
	measure   string
	unit      float64 // values are divided by it
	answerers []string
	cases     []string // as in the results
	labels    []string // of the cases, below the bars
}

var charts = []chart{
	{
		file: "bench-cpu.svg", title: "Server CPU per query, µs (less is better)", measure: "CPU per query, µs", unit: 1,
		answerers: []string{"ours", "in-tree", "whoami"},
		cases:     []string{"A", "SRV of both ports, with glue", "NXDOMAIN", "headless of 10", "headless of 50", "headless of 200"},
		labels:    []string{"A", "SRV", "NXDOMAIN", "headless, 10", "headless, 50", "headless, 200"},
	},
	{
		file: "bench-memory.svg", title: "Peak memory of CoreDNS, MiB (less is better)", measure: "peak of the whole process, bytes", unit: 1 << 20,
		answerers: []string{"ours", "in-tree"},
		cases:     []string{"no imports", "100 000 imports", "2000 headless of 500"},
		labels:    []string{"no imports", "100 000 imports", "2000 headless of 500"},
	},
}

var colors = map[string]color.Color{
	"ours":    color.RGBA{0x1f, 0x6f, 0xb4, 0xff},
	"in-tree": color.RGBA{0xe0, 0x8a, 0x2e, 0xff},
	"whoami":  color.RGBA{0x9a, 0x9a, 0x9a, 0xff},
}

var names = map[string]string{"ours": "this plugin", "in-tree": "kubernetes { multicluster }", "whoami": "whoami (fixed answer)"}

func main() {
	plot.DefaultFont = font.Font{Typeface: "Liberation", Variant: "Sans"}
	plotter.DefaultFont = plot.DefaultFont
	if err := drawAll(); err != nil {
		fmt.Fprintln(os.Stderr, "plots:", err)
		os.Exit(1)
	}
}

func drawAll() error {
	text, rows, err := read(results)
	if err != nil {
		return err
	}
	for _, c := range charts {
		picture, err := c.draw(rows)
		if err != nil {
			return fmt.Errorf("draw %s: %w", c.file, err)
		}
		if err := writePicture(c.file, picture, results, text); err != nil {
			return err
		}
	}
	if err := drawMonitoring(); err != nil {
		return err
	}
	return drawScale()
}

// read returns a file of results, and its rows.
func read(path string) (text []byte, rows [][]string, err error) {
	if text, err = os.ReadFile(filepath.Join(root, path)); err != nil {
		return nil, nil, err
	}
	if rows, err = csv.NewReader(bytes.NewReader(text)).ReadAll(); err != nil {
		return nil, nil, fmt.Errorf("read %s: %w", path, err)
	}
	return text, rows, nil
}

// writePicture writes a picture with the name and the sum of the results that it was drawn from.
func writePicture(file string, picture []byte, from string, text []byte) error {
	picture = append(picture, fmt.Sprintf("<!-- %s sha256 %x -->\n", from, sha256.Sum256(text))...)
	return os.WriteFile(filepath.Join(root, "docs/pictures", file), picture, 0o644)
}

func (c chart) draw(rows [][]string) ([]byte, error) {
	p := plot.New()
	p.Title.Text, p.Title.Padding = c.title, vg.Points(8)
	p.Legend.Top, p.Legend.Left = true, true
	p.BackgroundColor = color.White // also on a dark page
	p.Y.Min = 0
	width := vg.Points(60 / float64(len(c.answerers)))
	for i, answerer := range c.answerers {
		values := make(plotter.Values, len(c.cases))
		for j, name := range c.cases {
			m, err := median(rows, c.measure, name, answerer)
			if err != nil {
				return nil, err
			}
			values[j] = m / c.unit
		}
		bars, err := plotter.NewBarChart(values, width)
		if err != nil {
			return nil, err
		}
		bars.Color, bars.LineStyle.Width = colors[answerer], 0
		bars.Offset = width * vg.Length(float64(i)-float64(len(c.answerers)-1)/2)
		p.Add(bars)
		p.Legend.Add(names[answerer], bars)
	}
	p.NominalX(c.labels...)
	p.X.Min, p.X.Max = -0.6, float64(len(c.cases))-0.4 // space for the bars and labels at both ends
	p.Y.Max *= 1.05
	canvas := vgsvg.New(22*vg.Centimeter, 10*vg.Centimeter)
	p.Draw(draw.New(canvas))
	var out bytes.Buffer
	_, err := canvas.WriteTo(&out)
	return out.Bytes(), err
}

// median is that of the samples of an answerer in one case.
func median(rows [][]string, measure, name, answerer string) (float64, error) {
	var samples []float64
	for _, row := range rows { // measure, case, answerer, sample, value
		if row[0] != measure || row[1] != name || row[2] != answerer {
			continue
		}
		value, err := strconv.ParseFloat(row[4], 64)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", results, err)
		}
		samples = append(samples, value)
	}
	if len(samples) == 0 {
		return 0, fmt.Errorf("%s has no sample of %q, %q, %s", results, measure, name, answerer)
	}
	slices.Sort(samples)
	return (samples[(len(samples)-1)/2] + samples[len(samples)/2]) / 2, nil
}
