package standin

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// maxDelay bounds what an answer in JSON asks for.
const maxDelay = 24 * time.Hour

// An answerJSON is an Answer in JSON.
type answerJSON struct {
	Status         int       `json:"status,omitempty"`
	Reason         string    `json:"reason,omitempty"`
	RetryAfter     duration  `json:"retry_after,omitzero"`
	RetryAfterDate bool      `json:"retry_after_date,omitempty"`
	Since          time.Time `json:"since,omitzero"`
	Delay          duration  `json:"delay,omitzero"`
	Fault          Fault     `json:"fault,omitempty"`
}

// UnmarshalJSON implements json.Unmarshaler. It refuses unknown fields, a status
// that is neither 200 nor 300 to 599, and durations below 0 or above a day.
func (a *Answer) UnmarshalJSON(data []byte) error {
	var j answerJSON
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&j); err != nil {
		return err
	}
	if j.Status != 0 && j.Status != http.StatusOK && (j.Status < 300 || j.Status > 599) {
		return fmt.Errorf("status: %d is neither 200 nor from 300 to 599", j.Status)
	}
	*a = Answer{
		Status: j.Status, Reason: j.Reason, RetryAfter: time.Duration(j.RetryAfter), RetryAfterDate: j.RetryAfterDate,
		Since: j.Since, Delay: time.Duration(j.Delay), Fault: j.Fault,
	}
	return nil
}

// MarshalJSON implements json.Marshaler.
func (a Answer) MarshalJSON() ([]byte, error) {
	return json.Marshal(answerJSON{a.Status, a.Reason, duration(a.RetryAfter), a.RetryAfterDate, a.Since, duration(a.Delay), a.Fault})
}

// A duration is written as time.Duration's String does.
type duration time.Duration

func (d duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

func (d *duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	if err != nil || parsed < 0 || parsed > maxDelay {
		return fmt.Errorf("want a duration such as 1.5s, at most %v", maxDelay)
	}
	*d = duration(parsed)
	return nil
}
