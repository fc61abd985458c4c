package main

import (
	"bytes"
	"cmp"
	"fmt"
	"image/color"
	"maps"
	"slices"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// monitored is what a run of test/monitoring wrote: panel, series, seconds, value.
const monitored = "docs/results/monitoring.csv"

// bars is the panel whose series are rows: a series has a point while its alert fires.
const bars = "Firing alerts"

// panels are drawn below one another, over the same time.
var panels = []string{bars, "Peers connected", "Failover: endpoints in use, by their cluster", "Time since the API server answered a DNS server", "Propagation between clusters"}

var lineColors = []color.Color{
	color.RGBA{0x1f, 0x6f, 0xb4, 0xff}, color.RGBA{0xe0, 0x8a, 0x2e, 0xff}, color.RGBA{0x3f, 0x8f, 0x4f, 0xff}, color.RGBA{0x8a, 0x4f, 0x9e, 0xff},
	color.RGBA{0x17, 0xa0, 0xa8, 0xff}, color.RGBA{0x8c, 0x5a, 0x3c, 0xff}, color.RGBA{0xd0, 0x5f, 0x9a, 0xff}, color.RGBA{0x6b, 0x6b, 0x6b, 0xff},
}

// drawMonitoring draws panels of the dashboard.
func drawMonitoring() error {
	text, rows, err := read(monitored)
	if err != nil {
		return err
	}
	lines, end, err := readSeries(rows)
	if err != nil {
		return fmt.Errorf("read %s: %w", monitored, err)
	}
	const width, height = 22 * vg.Centimeter, 28 * vg.Centimeter
	canvas := vgsvg.New(width, height)
	page := draw.New(canvas)
	var plots [][]*plot.Plot
	for _, panel := range panels {
		if len(lines[panel]) == 0 {
			return fmt.Errorf("%s has no panel %q", monitored, panel)
		}
		p, err := drawPanel(panel, lines[panel], end)
		if err != nil {
			return err
		}
		plots = append(plots, []*plot.Plot{p})
	}
	tiles := draw.Tiles{Rows: len(panels), Cols: 1, PadY: vg.Points(12), PadLeft: vg.Points(12), PadRight: vg.Points(6)}
	for i, row := range plot.Align(plots, tiles, page) {
		plots[i][0].Draw(row[0])
	}
	var out bytes.Buffer
	if _, err := canvas.WriteTo(&out); err != nil {
		return err
	}
	return writePicture("monitoring.svg", out.Bytes(), monitored, text)
}

// readSeries returns the points by panel and series, and the last time.
func readSeries(rows [][]string) (lines map[string]map[string]plotter.XYs, end float64, err error) {
	lines = map[string]map[string]plotter.XYs{}
	for _, row := range rows {
		x, errX := strconv.ParseFloat(row[2], 64)
		y, errY := strconv.ParseFloat(row[3], 64)
		if err := cmp.Or(errX, errY); err != nil {
			return nil, 0, err
		}
		if lines[row[0]] == nil {
			lines[row[0]] = map[string]plotter.XYs{}
		}
		lines[row[0]][row[1]] = append(lines[row[0]][row[1]], plotter.XY{X: x, Y: y})
		end = max(end, x)
	}
	return lines, end, nil
}

func drawPanel(title string, series map[string]plotter.XYs, end float64) (*plot.Plot, error) {
	p := plot.New()
	p.Title.Text, p.BackgroundColor = title, color.White // also on a dark page
	p.Legend.Top, p.Legend.Left = true, true
	names := slices.Sorted(maps.Keys(series))
	if title == bars { // in the order in which they fired
		slices.SortFunc(names, func(a, b string) int { return cmp.Compare(series[b][0].X, series[a][0].X) })
		p.NominalY(names...)
	}
	for i, name := range names {
		points := series[name]
		if title == bars {
			for j := range points {
				points[j].Y = float64(i)
			}
		}
		for _, part := range split(points) {
			if title == bars { // a bar ends where the next value would be
				part = append(slices.Clone(part), plotter.XY{X: part[len(part)-1].X + 1, Y: float64(i)})
			}
			line, err := plotter.NewLine(part)
			if err != nil {
				return nil, fmt.Errorf("draw %s: %w", title, err)
			}
			line.Color, line.Width = lineColors[i%len(lineColors)], vg.Points(1.5)
			if title == bars {
				line.Color, line.Width = color.RGBA{0xc0, 0x39, 0x2b, 0xff}, vg.Points(6)
			}
			p.Add(line)
			if title != bars && &part[0] == &points[0] {
				p.Legend.Add(name, line)
			}
		}
	}
	p.X.Min, p.X.Max = 0, end+1
	p.X.Label.Text = "seconds"
	if title != bars {
		p.Y.Min = 0
		p.Y.Max = p.Y.Max*1.4 + 0.1 // space for the legend
	}
	return p, nil
}

// split divides points where there was no value for more than a second.
func split(points plotter.XYs) (parts []plotter.XYs) {
	from := 0
	for i := 1; i <= len(points); i++ {
		if i == len(points) || points[i].X-points[i-1].X > 1.5 {
			parts = append(parts, points[from:i])
			from = i
		}
	}
	return parts
}
