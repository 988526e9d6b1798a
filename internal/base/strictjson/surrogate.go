package strictjson

import (
	"bytes"
	"strconv"
	"unicode/utf16"

	"github.com/pushpace/pushpace/internal/base/fielderrors"
)

const loneSurrogateFault = `holds half a character: \ud800 to \udfff are written in pairs`

// CheckCharacters returns the fault of a valid JSON text that contains half a character.
func CheckCharacters(data []byte) error {
	if loneSurrogate(data) {
		return fielderrors.New("", "%s", loneSurrogateFault)
	}
	return nil
}

// loneSurrogate reports whether a valid JSON text has an escape that is half a
// character. encoding/json reads each as U+FFFD: two names would become one.
func loneSurrogate(data []byte) bool {
	for {
		at := bytes.IndexByte(data, '\\')
		if at < 0 {
			return false
		}
		data = data[at:]
		high := codeUnit(data)
		switch {
		case !utf16.IsSurrogate(high):
			data = data[2:]
		case utf16.DecodeRune(high, codeUnit(data[6:])) == '\uFFFD':
			return true
		default:
			data = data[12:]
		}
	}
}

// codeUnit returns the code unit of a leading \uXXXX; 0 for anything else.
func codeUnit(data []byte) rune {
	if len(data) < 6 || data[0] != '\\' || data[1] != 'u' {
		return 0
	}
	unit, err := strconv.ParseUint(string(data[2:6]), 16, 16)
	if err != nil {
		return 0
	}
	return rune(unit)
}
