package main

import (
	"bytes"
	"fmt"
	"image/color"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// scaled is what the runs of `clusterset many` wrote: clusters, names that the others export, what, measured, unit.
const scaled = "docs/results/scale.csv"

// scales are drawn beside one another, over the number of names. The lines are rows of the results, by how they begin.
var scales = []struct {
	title string
	lines []struct{ row, name string }
}{
	{"First sync, s", []struct{ row, name string }{{"first sync: until all imports", "the controller"}, {"the same writes by a bare client", "a bare client"}}},
	{"Memory of a controller, MiB", []struct{ row, name string }{{"memory of the controller, resident, after the first sync", "after the first sync"}, {"idle: memory", "idle"}}},
}

// drawScale draws what more clusters cost.
func drawScale() error {
	text, rows, err := read(scaled)
	if err != nil {
		return err
	}
	canvas := vgsvg.New(22*vg.Centimeter, 9*vg.Centimeter)
	row := make([]*plot.Plot, 0, len(scales))
	for _, s := range scales {
		p := plot.New()
		p.Title.Text, p.X.Label.Text, p.BackgroundColor = s.title, "names that other clusters export", color.White
		p.Legend.Top, p.Legend.Left, p.X.Min, p.Y.Min = true, true, 0, 0
		for i, of := range s.lines {
			points, err := pointsOf(rows, of.row)
			if err != nil {
				return err
			}
			line, dots, err := plotter.NewLinePoints(points)
			if err != nil {
				return err
			}
			line.Color, dots.Color = lineColors[i], lineColors[i]
			p.Add(line, dots)
			p.Legend.Add(of.name, line, dots)
		}
		row = append(row, p)
	}
	tiles := draw.Tiles{Rows: 1, Cols: len(row), PadX: vg.Points(24), PadLeft: vg.Points(6), PadRight: vg.Points(12), PadBottom: vg.Points(6)}
	for i, at := range plot.Align([][]*plot.Plot{row}, tiles, draw.New(canvas))[0] {
		row[i].Draw(at)
	}
	var out bytes.Buffer
	if _, err := canvas.WriteTo(&out); err != nil {
		return err
	}
	return writePicture("scale.svg", out.Bytes(), scaled, text)
}

// pointsOf returns the measured values of a row, by the number of names.
func pointsOf(rows [][]string, begin string) (points plotter.XYs, err error) {
	for _, row := range rows {
		if !strings.HasPrefix(row[2], begin) {
			continue
		}
		x, errX := strconv.ParseFloat(row[1], 64)
		y, errY := strconv.ParseFloat(row[3], 64)
		if errX != nil || errY != nil {
			return nil, fmt.Errorf("%s: %q is no measurement", scaled, row)
		}
		points = append(points, plotter.XY{X: x, Y: y})
	}
	if len(points) == 0 {
		return nil, fmt.Errorf("%s has no row %q", scaled, begin)
	}
	return points, nil
}
