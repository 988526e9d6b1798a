package standin

import (
	"bytes"
	"encoding/json"
	"io"
	"strconv"
	"sync"
	"time"
	"unicode/utf8"
)

// An Entry is one accepted push.
type Entry struct {
	// At is when the push was accepted.
	At time.Time `json:"at"`
	// Platform is "apns", "fcm" or "webpush".
	Platform string `json:"platform"`
	// App is the app's name at the provider: APNs' topic, FCM's project, the public key of
	// Web Push.
	App string `json:"app"`
	// Token is the device's token. A message to a Firebase Installation ID has FID instead.
	Token string `json:"token,omitempty"`
	FID   string `json:"fid,omitempty"`
	// APNsID is the apns-id; Name is the message's ID at other providers.
	APNsID string `json:"apns_id,omitempty"`
	Name   string `json:"name,omitempty"`
	// Notification is the payload's pushpace_id.
	Notification string `json:"notification,omitempty"`
	PayloadBytes int    `json:"payload_bytes"`
}

// AppendJSON appends the entry's JSON form to b, with At to the microsecond in
// UTC, and returns the extended slice.
func (e Entry) AppendJSON(b []byte) []byte {
	b = append(b, `{"at":"`...)
	b = e.At.UTC().AppendFormat(b, "2006-01-02T15:04:05.000000Z07:00")
	b = append(b, '"')
	b = appendField(b, "platform", e.Platform)
	b = appendField(b, "app", e.App)
	if e.FID != "" {
		b = appendField(b, "fid", e.FID)
	} else {
		b = appendField(b, "token", e.Token)
	}
	if e.APNsID != "" {
		b = appendField(b, "apns_id", e.APNsID)
	}
	if e.Name != "" {
		b = appendField(b, "name", e.Name)
	}
	if e.Notification != "" {
		b = appendField(b, "notification", e.Notification)
	}
	b = append(b, `,"payload_bytes":`...)
	b = strconv.AppendInt(b, int64(e.PayloadBytes), 10)
	return append(b, '}')
}

// appendField appends a comma and a member with a string value.
func appendField(b []byte, key, value string) []byte {
	b = append(b, ',', '"')
	b = append(b, key...)
	b = append(b, '"', ':')
	for i := range len(value) {
		if c := value[i]; c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			quoted, _ := json.Marshal(value) // a string always marshals
			return append(b, quoted...)
		}
	}
	b = append(b, '"')
	b = append(b, value...)
	return append(b, '"')
}

// NotificationID returns the value of pushpace_id in a JSON payload, at any depth, or "".
func NotificationID(payload []byte) string {
	// Within a JSON string the quotes would be escaped, so this finds a key.
	_, rest, ok := bytes.Cut(payload, []byte(`"pushpace_id"`))
	if !ok {
		return ""
	}
	rest = bytes.TrimLeft(rest, " \t\r\n")
	if len(rest) == 0 || rest[0] != ':' {
		return ""
	}
	rest = bytes.TrimLeft(rest[1:], " \t\r\n")
	if len(rest) == 0 || rest[0] != '"' {
		return ""
	}
	for i := 1; i < len(rest); i++ {
		switch rest[i] {
		case '\\':
			var id string
			if json.NewDecoder(bytes.NewReader(rest)).Decode(&id) != nil {
				return ""
			}
			return id
		case '"':
			return string(rest[1:i])
		}
	}
	return ""
}

// A Ledger records the accepted pushes. The zero value keeps them in memory.
// It is safe for concurrent use.
type Ledger struct {
	mu      sync.Mutex
	sink    func(Entry) error
	entries []Entry
	count   int
	err     error
}

// NewLedger returns a ledger that passes each entry to sink, one at a time, and does not store it:
// its memory does not grow. With a nil sink it stores the entries.
func NewLedger(sink func(Entry) error) *Ledger {
	return &Ledger{sink: sink}
}

// Lines returns a sink for NewLedger that writes one line of JSON for each
// entry, with one call of Write.
func Lines(w io.Writer) func(Entry) error {
	var line []byte
	return func(e Entry) error {
		line = append(e.AppendJSON(line[:0]), '\n')
		_, err := w.Write(line)
		return err
	}
}

// Add records e. It returns once the sink has it.
func (l *Ledger) Add(e Entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count++
	if l.sink == nil {
		l.entries = append(l.entries, e)
		return
	}
	if err := l.sink(e); err != nil && l.err == nil {
		l.err = err
	}
}

// Len returns how many pushes were accepted.
func (l *Ledger) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.count
}

// Entries returns a copy of the stored entries, oldest first.
func (l *Ledger) Entries() []Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]Entry(nil), l.entries...)
}

// Err returns the first error of the sink.
func (l *Ledger) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}
