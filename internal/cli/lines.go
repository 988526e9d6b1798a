package cli

import (
	"bufio"
	"bytes"
	"errors"
	"io"

	"github.com/pushpace/pushpace/internal/base/textfile"
	"github.com/pushpace/pushpace/push"
)

// maxLine is the longest line: the largest notification and the line's end.
const maxLine = push.MaxEncodedSize + 2

var errLongLine = errors.New("the line is too long")

// lines reads a stream line by line, with memory for one line.
type lines struct {
	r      *bufio.Reader
	number int
	read   int64 // bytes
}

func newLines(r io.Reader) *lines { return &lines{r: bufio.NewReaderSize(r, maxLine)} }

// next returns the next line that is not blank, without its line end, and its number from 1. The
// line is valid until the next call. A line that is too long is errLongLine, and the next call
// continues after that line; the end is io.EOF.
func (l *lines) next() ([]byte, int, error) {
	for {
		line, err := l.r.ReadSlice('\n')
		l.read += int64(len(line))
		if len(line) > 0 {
			l.number++
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			if err := l.skip(); err != nil && !errors.Is(err, io.EOF) {
				return nil, l.number, err
			}
			return nil, l.number, errLongLine
		}
		if line = bytes.TrimSpace(textfile.TrimMark(line)); len(line) > 0 && (err == nil || errors.Is(err, io.EOF)) {
			return line, l.number, nil
		}
		if err != nil {
			return nil, l.number, err
		}
	}
}

// skip reads on to the line's end.
func (l *lines) skip() error {
	for {
		rest, err := l.r.ReadSlice('\n')
		l.read += int64(len(rest))
		if !errors.Is(err, bufio.ErrBufferFull) {
			return err
		}
	}
}
