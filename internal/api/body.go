package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/pushpace/pushpace/internal/base/textfile"
)

// readAhead is how much room a body gets before it has arrived.
const readAhead = 64 << 10

// checkBody refuses a body by what its header says.
func checkBody(r *http.Request, most int64) error {
	if !isJSONBody(r.Header) {
		return &problem{Status: http.StatusUnsupportedMediaType, Detail: "Send application/json, without a Content-Encoding."}
	}
	if r.ContentLength > most {
		return &http.MaxBytesError{Limit: most}
	}
	return nil
}

// readBody reads a body.
func readBody(w http.ResponseWriter, r *http.Request, charge *charge, most int64) ([]byte, error) {
	room := r.ContentLength
	if room < 0 || room > readAhead {
		room = readAhead
	}
	body := bytes.NewBuffer(make([]byte, 0, room+bytes.MinRead))
	_, err := body.ReadFrom(charge.reader(r.Context(), http.MaxBytesReader(w, r.Body, most)))
	var tooLarge *http.MaxBytesError
	switch {
	case err == nil:
		text, err := textfile.Decode(body.Bytes())
		if encoding := new(textfile.EncodingError); errors.As(err, &encoding) {
			return nil, &problem{Status: http.StatusBadRequest, Detail: "The body is in " + encoding.Encoding + ": send it as UTF-8."}
		}
		return text, err
	case errors.As(err, &tooLarge), errors.Is(err, errNoRoom):
		return body.Bytes(), err
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, &problem{Status: http.StatusRequestTimeout, Detail: "The body did not arrive in time."}
	case errors.Is(err, io.ErrUnexpectedEOF):
		return nil, &problem{Status: statusGone, cause: err}
	}
	return nil, &problem{Status: http.StatusBadRequest, Detail: "The body cannot be read."}
}

const (
	// discardBytes and discardTime bound what is read of a body that is too large
	// once it is refused: a whole batch of the largest notifications.
	discardBytes = 64 << 20
	discardTime  = 3 * time.Second
)

// discard reads on after the answer, which a client that has not sent everything
// might never see: the end of the connection, or over HTTP/2 of the stream, would
// reset it.
func discard(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Expect") != "" {
		return // the body is not on its way
	}
	on := http.NewResponseController(w)
	if on.Flush() != nil || on.SetReadDeadline(time.Now().Add(discardTime)) != nil {
		return
	}
	_, _ = io.CopyN(io.Discard, r.Body, discardBytes)
}

// isJSONBody reports whether the body is plain JSON.
func isJSONBody(h http.Header) bool {
	if encoding := h.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		return false
	}
	if h.Get("Content-Type") == "application/json" {
		return true
	}
	kind, params, err := mime.ParseMediaType(h.Get("Content-Type"))
	return err == nil && kind == "application/json" && (params["charset"] == "" || isUTF8(params["charset"]))
}

func isUTF8(charset string) bool {
	return len(charset) == len("utf-8") && bytes.EqualFold([]byte(charset), []byte("utf-8"))
}

// write answers r.
func (r reply) write(w http.ResponseWriter) error {
	if r.value == nil {
		w.WriteHeader(r.status)
		return nil
	}
	text, err := json.Marshal(r.value)
	if err != nil {
		return err
	}
	writeJSON(w, r.status, "application/json", text)
	return nil
}

func writeJSON(w http.ResponseWriter, status int, kind string, text []byte) {
	h := w.Header()
	h.Set("Content-Type", kind)
	h.Set("Content-Length", strconv.Itoa(len(text)))
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(text) // who is gone does not miss it
}
