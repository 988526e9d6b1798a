package words

import (
	"strings"
	"time"
)

// A Sentence is a text with instants as data: a terminal shows them in UTC, a browser in its
// reader's zone.
type Sentence []Part

// A Part is a text, or an instant.
type Part struct {
	Text string
	At   time.Time // zero for a text
}

// Say returns a sentence of texts, instants and sentences. A zero instant is left out.
func Say(parts ...any) (s Sentence) {
	for _, part := range parts {
		switch p := part.(type) {
		case string:
			s = append(s, Part{Text: p})
		case time.Time:
			if !p.IsZero() {
				s = append(s, Part{At: p})
			}
		case Sentence:
			s = append(s, p...)
		default:
			panic("words: a sentence is of texts, instants and sentences")
		}
	}
	return s
}

// String writes the sentence with its instants in UTC.
func (s Sentence) String() string {
	var b strings.Builder
	for _, part := range s {
		b.WriteString(part.Text)
		if !part.At.IsZero() {
			b.WriteString(Stamp(part.At))
		}
	}
	return b.String()
}

// Clauses joins sentences by semicolons into one sentence that ends with a full stop. The first
// sentence must begin with an ASCII letter, which becomes a capital.
func Clauses(clauses ...Sentence) (s Sentence) {
	for i, c := range clauses {
		if i > 0 {
			s = append(s, Part{Text: "; "})
		}
		s = append(s, c...)
	}
	if len(s) > 0 && s[0].Text != "" {
		s[0].Text = strings.ToUpper(s[0].Text[:1]) + s[0].Text[1:]
	}
	return append(s, Part{Text: "."})
}
