package words

// A Tone is the colour in which something is shown.
type Tone int

// The tones.
const (
	Well  Tone = iota
	Warns      // something waits, or is held on purpose: nobody has to act
	Wrong      // somebody has to act
)

// Class returns the tone's class in a page's style.
func (t Tone) Class() string { return [...]string{"", "waits", "fault"}[t] }
