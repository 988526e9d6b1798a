package words

// A Tone says how something looks.
type Tone int

// The tones.
const (
	Well  Tone = iota
	Warns      // it waits, or is held back on purpose: nobody has to act
	Wrong      // somebody has to act
)

// Class is the tone's in the style of a page.
func (t Tone) Class() string { return [...]string{"", "waits", "fault"}[t] }
