package push

import "testing"

// Names that look like another, or break a line, are no names.
func TestUnseenCharacters(t *testing.T) {
	t.Parallel()
	for name, fine := range map[string]bool{
		"ada": true, "ادا\u200cا": true, "👩\u200d💻": true, "a b": true, "é": true, "\ufffd": true,
		"a\u2028": false, "a\u2029": false, "a\u202e": false, "a\u200b": false, "\ufeffa": false, "a\u00ad": false, "a\u2066b": false, "a\n": false, "a\u0085": false,
	} {
		if got := ValidName(name); got != fine {
			t.Errorf("%q: %t", name, got)
		}
	}
}
