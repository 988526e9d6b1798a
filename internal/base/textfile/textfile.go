// Package textfile reads texts that people write with an editor or a shell: UTF-8, with or without
// a byte order mark. Readers of configuration, credentials, secrets and notifications use it.
package textfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"unicode/utf8"
)

// mark is the byte order mark of UTF-8. Editors of Windows write it in front of a text;
// concatenated files have it at the start of a line too.
const mark = "\ufeff"

// An EncodingError is the error for a text in UTF-16 or UTF-32.
type EncodingError struct {
	Encoding string // UTF-16 or UTF-32
}

// Error implements error.
func (e *EncodingError) Error() string {
	return "is in " + e.Encoding + ": save it as UTF-8 (in PowerShell with Out-File -Encoding utf8, not with >)"
}

// Read reads a file as Decode does. Its errors name the file, and contain nothing of the text.
func Read(file string) ([]byte, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	text, err := Decode(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return text, nil
}

// Decode returns a complete text without its byte order marks. For UTF-16 and UTF-32 it returns an
// *EncodingError. It does not check whether any other text is UTF-8.
func Decode(data []byte) ([]byte, error) {
	if encoding := encodingOf(data); encoding != "" {
		return nil, &EncodingError{encoding}
	}
	data = TrimMark(data)
	if bytes.Contains(data, []byte("\n"+mark)) && utf8.Valid(data) { // a .p12 is no text
		data = bytes.ReplaceAll(data, []byte("\n"+mark), []byte("\n"))
	}
	return data, nil
}

// TrimMark returns a line, or the start of a text, without the byte order mark in front.
func TrimMark(line []byte) []byte {
	for bytes.HasPrefix(line, []byte(mark)) { // tools may add several
		line = line[len(mark):]
	}
	return line
}

// most is the number of bytes that identify an encoding.
const most = 4

// NewReader reads the beginning of r, and returns a reader of the whole. For UTF-16 and
// UTF-32 it returns an *EncodingError. Its caller applies TrimMark to each line.
func NewReader(r io.Reader) (io.Reader, error) {
	head := make([]byte, most)
	n, err := io.ReadFull(r, head)
	head = head[:n]
	if encoding := encodingOf(head); encoding != "" {
		return nil, &EncodingError{encoding}
	}
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, err
	}
	return io.MultiReader(bytes.NewReader(head), r), nil
}

// encodingOf returns UTF-16 or UTF-32 if the beginning of a text is in this encoding; otherwise "".
func encodingOf(text []byte) string {
	begins := func(s string) bool { return bytes.HasPrefix(text, []byte(s)) }
	null := func(pattern ...bool) bool { // one per byte, of the most first
		if len(text) < len(pattern) {
			return false
		}
		for i, is := range pattern {
			if (text[i] == 0) != is {
				return false
			}
		}
		return true
	}
	switch {
	case begins("\xff\xfe\x00\x00"), begins("\x00\x00\xfe\xff"), null(true, true, true, false), null(false, true, true, true):
		return "UTF-32"
	case begins("\xff\xfe"), begins("\xfe\xff"), null(true, false, true, false), null(false, true, false, true):
		return "UTF-16"
	}
	return ""
}
