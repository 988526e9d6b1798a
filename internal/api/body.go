package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/pushpace/pushpace/internal/api/problems"
	"github.com/pushpace/pushpace/internal/base/textfile"
)

// readAhead is the largest buffer, in bytes, that a body gets before it has arrived.
const readAhead = 64 << 10

// checkBody refuses a body by its header.
func checkBody(r *http.Request, most int64) error {
	if fault := typeFault(r.Header); fault != "" {
		return &problem{Status: http.StatusUnsupportedMediaType, Detail: fault}
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
		return nil, &problem{Status: problems.Gone, Cause: err}
	}
	return nil, &problem{Status: http.StatusBadRequest, Detail: "The body cannot be read."}
}

const (
	// discardBytes and discardTime bound the read of a refused body that is too large: a whole
	// batch of the largest notifications.
	discardBytes = 64 << 20
	discardTime  = 3 * time.Second
)

// discard reads the rest of the body after the answer. Otherwise the end of the connection,
// or of the HTTP/2 stream, is a reset, and a client that is still sending may never see the
// answer.
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

// typeFault returns a sentence if the header does not announce JSON in UTF-8, else "". Types of
// forms are refused: pages of other sites may send forms.
func typeFault(h http.Header) string {
	const want = ": send application/json in UTF-8."
	if encoding := h.Get("Content-Encoding"); encoding != "" && !strings.EqualFold(encoding, "identity") {
		return "The body has the Content-Encoding " + shown(encoding) + ": send it without one."
	}
	given := h.Get("Content-Type")
	kind, parameters, _ := strings.Cut(given, ";")
	kind = strings.ToLower(strings.TrimSpace(kind))
	switch {
	case kind == "":
		return "The body has no Content-Type" + want
	case kind != "application/json" && kind != "text/json" && !(strings.HasPrefix(kind, "application/") && strings.HasSuffix(kind, "+json")):
		return "The body's Content-Type is " + shown(given) + want
	}
	for parameter := range strings.SplitSeq(parameters, ";") {
		name, value, _ := strings.Cut(parameter, "=")
		if strings.EqualFold(strings.TrimSpace(name), "charset") && !isUTF8(value) {
			return "The body's Content-Type is " + shown(given) + want
		}
	}
	return ""
}

// isUTF8 reports whether a charset is UTF-8 or its subset ASCII. Clients spell and quote it in
// several ways; an empty charset counts as UTF-8.
func isUTF8(charset string) bool {
	switch strings.NewReplacer("-", "", "_", "").Replace(strings.ToLower(strings.Trim(charset, " \t\"'"))) {
	case "utf8", "usascii", "ascii", "":
		return true
	}
	return false
}

// shown returns a header's value for an error, cut to 100 bytes and quoted.
func shown(value string) string {
	const most = 100
	return strconv.QuoteToASCII(value[:min(len(value), most)])
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
	_, _ = w.Write(text) // an error means that the client is gone
}
