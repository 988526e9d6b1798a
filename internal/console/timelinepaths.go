package console

import (
	"fmt"
	"strings"
)

// The SVG paths of a band's shapes. Sent notifications are filled, waiting ones hollow. Critical
// ones are diamonds; others are discs if sent (a line with round ends), squares if waiting.

// Dots returns the path of the marks of a kind.
func (b band) Dots(booked, critical bool) string {
	var path strings.Builder
	for _, m := range b.Marks {
		switch {
		case m.Booked != booked || m.Critical != critical:
		case critical:
			fmt.Fprintf(&path, "M%d %dl6 6-6 6-6-6z", m.X, b.Y-6)
		case booked:
			fmt.Fprintf(&path, "M%d %dh8v8h-8z", m.X-4, b.Y-4)
		default:
			fmt.Fprintf(&path, "M%d %dh0", m.X, b.Y)
		}
	}
	return path.String()
}

// Shades returns the path of the quiet hours.
func (b band) Shades() string {
	var path strings.Builder
	for _, s := range b.Nights {
		fmt.Fprintf(&path, "M%d %dh%dv%dh-%dz", s.X, s.Y, s.Width, s.Height, s.Width)
	}
	return path.String()
}

// Columns returns the path of the bars.
func (b band) Columns(booked bool) string {
	var path strings.Builder
	for _, bar := range b.Bars {
		if bar.Booked == booked {
			fmt.Fprintf(&path, "M%d %dv-%dh%dv%dz", bar.X, b.Y, bar.Height, barWidth-1, bar.Height)
		}
	}
	return path.String()
}

// Arcs returns the path of the causes without a label.
func (b band) Arcs() string {
	var path strings.Builder
	for _, c := range b.Causes {
		if c.Y == 0 {
			fmt.Fprintf(&path, "M%d %dQ%d %d %d %d", c.From, b.Y-6, (c.From+c.To)/2, b.Y-6-2*(arcHeight-4), c.To, b.Y-6)
		}
	}
	return path.String()
}

// Line returns the path of a labelled cause, from the entry to the slot.
func (b band) Line(c cause) string {
	return fmt.Sprintf("M%d %dV%dH%dV%dm-4 7l4-7 4 7", c.From, b.Y+7, c.Y, c.To, b.Y+7)
}

// Window returns the path of the bar.
func (l limitBar) Window() string {
	if l.Open {
		return fmt.Sprintf("M%d %dH%dv8H%d", l.From, l.Y, l.To, l.From)
	}
	return fmt.Sprintf("M%d %dH%dv8H%dz", l.From, l.Y, l.To, l.From)
}

// Until returns the path from now to the instant of the next free admission.
func (l limitBar) Until() string { return fmt.Sprintf("M%d %dH%d", l.To, l.Y+4, l.Free) }

// Mark returns the path of the mark at that instant. It points to the right if the instant is
// beyond the picture.
func (l limitBar) Mark() string {
	if l.Beyond {
		return fmt.Sprintf("M%d %dl8 5-8 5z", l.Free, l.Y-1)
	}
	return fmt.Sprintf("M%d %dh10l-5 9z", l.Free-5, l.Y)
}
