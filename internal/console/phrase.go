package console

import (
	"cmp"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/worker/pause"
)

// A phrase is a part of a sentence: text, then a name that somebody else has chosen,
// then an instant, each as far as there is one.
type phrase struct {
	Text, Name string
	At         time.Time
}

// platformNames are how people call the platforms.
var platformNames = map[push.Platform]string{push.APNs: "APNs", push.FCM: "FCM"}

// held says what a pause keeps back, since when, why and until when.
func held(p *pause.Pause) (s []phrase) {
	platform := cmp.Or(platformNames[p.Platform], string(p.Platform))
	switch {
	case p.Platform != "" && p.App != "":
		s = append(s, phrase{Text: platform + " of ", Name: p.App})
	case p.Platform != "":
		s = append(s, phrase{Text: platform})
	case p.App != "":
		s = append(s, phrase{Name: p.App})
	}
	switch {
	case p.Category != "" && len(s) > 0:
		s = append(s, phrase{Text: ", category ", Name: p.Category})
	case p.Category != "":
		s = append(s, phrase{Text: "category ", Name: p.Category})
	case len(s) == 0:
		s = append(s, phrase{Text: "everything"})
	}
	switch p.Kind {
	case pause.Trouble:
		s = append(s, phrase{Text: " is in trouble"})
	case pause.Provider:
		s = append(s, phrase{Text: " is paused for what its provider answers"})
	default:
		s = append(s, phrase{Text: " is paused"})
	}
	if !p.At.IsZero() {
		s = append(s, phrase{Text: " since ", At: p.At})
	}
	if p.By != "" {
		s = append(s, phrase{Text: " by ", Name: p.By})
	}
	if why := cmp.Or(p.Error, p.Reason); why != "" {
		s = append(s, phrase{Text: ": ", Name: why})
	}
	if !p.Until.IsZero() {
		word := ", until "
		if p.Kind == pause.Trouble {
			word = ", looked at again at "
		}
		s = append(s, phrase{Text: word, At: p.Until})
	}
	return s
}

// joined puts sentences together, the first with a capital.
func joined(clauses [][]phrase) (s []phrase) {
	for i, c := range clauses {
		if i > 0 {
			s = append(s, phrase{Text: "; "})
		}
		s = append(s, c...)
	}
	if len(s) > 0 && s[0].Text != "" {
		s[0].Text = strings.ToUpper(s[0].Text[:1]) + s[0].Text[1:]
	}
	return append(s, phrase{Text: "."})
}

// lasting writes how long something lasts, or was ago.
func lasting(d time.Duration) string {
	d = max(0, d)
	switch {
	case d < 10*time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%.0f s", d.Seconds())
	case d < time.Hour:
		return fmt.Sprintf("%.0f min", math.Floor(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%d days", int(d.Hours()/24))
}

// taken writes how long something takes; "" where that is not known.
func taken(d time.Duration) string {
	switch {
	case d <= 0:
		return ""
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.1f ms", d.Seconds()*1000)
	case d < time.Second:
		return fmt.Sprintf("%.0f ms", d.Seconds()*1000)
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}
