package worker

import (
	"errors"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/pushpace/pushpace/push"
)

// An envelope is asynq's message around a job, as far as it matters here. Our
// Producer leaves all of asynq's options alone but the retries; what others put on
// the queue may have any.
type envelope struct {
	retry, timeout, deadline, retention uint64
	unique, group                       bool
	uniqueKey                           string // when unique
	// back is when it was last put back on the queue, for whatever reason, in whole
	// seconds; zero for one that comes for the first time.
	back time.Time
}

// The numbers of asynq's TaskMessage's fields.
const (
	typeField         = 1
	idField           = 3
	queueField        = 4
	retryField        = 5
	errorField        = 7
	timeoutField      = 8
	deadlineField     = 9
	uniqueField       = 10
	lastFailedAtField = 11
	retentionField    = 12
	groupField        = 14
	headersField      = 15
)

// defaultTimeout is the time that asynq gives a job whose producer names none (s).
const defaultTimeout = 1800

// maxMessage bounds asynq's message, in bytes: a job's payload, and plenty for
// what is around it. What is longer is not read.
const maxMessage = push.MaxEncodedSize + 64<<10

var errEnvelope = errors.New("asynq cannot read the message")

// readEnvelope reads asynq's message as asynq does. Its error is for what asynq
// could not read either.
func readEnvelope(message string) (envelope, error) {
	var e envelope
	fields := []byte(message) // not copied: nothing writes to it
	if len(fields) == 0 {
		return e, errEnvelope
	}
	for len(fields) > 0 {
		number, kind, n := protowire.ConsumeTag(fields)
		if n < 0 {
			return e, errEnvelope
		}
		value := fields[n:]
		length := protowire.ConsumeFieldValue(number, kind, value)
		if length < 0 {
			return e, errEnvelope
		}
		fields = value[length:]
		switch kind {
		case protowire.VarintType:
			v, _ := protowire.ConsumeVarint(value)
			e.number(number, v)
		case protowire.BytesType:
			v, _ := protowire.ConsumeBytes(value)
			if !e.text(number, v) {
				return e, errEnvelope
			}
		}
	}
	return e, nil
}

func (e *envelope) number(number protowire.Number, v uint64) {
	switch number {
	case retryField:
		e.retry = v
	case timeoutField:
		e.timeout = v
	case deadlineField:
		e.deadline = v
	case retentionField:
		e.retention = v
	case lastFailedAtField:
		e.back = time.Time{}
		if int64(v) > 0 {
			e.back = time.Unix(int64(v), 0)
		}
	}
}

// text answers whether asynq can read the field.
func (e *envelope) text(number protowire.Number, v []byte) bool {
	switch number {
	case uniqueField:
		e.unique, e.uniqueKey = len(v) > 0, string(v)
	case groupField:
		e.group = len(v) > 0
	case headersField:
		return readableHeader(v)
	case typeField, idField, queueField, errorField:
	default:
		return true // the payload, and what asynq does not know either
	}
	return utf8.Valid(v)
}

// readableHeader reports whether asynq can read an entry of the headers.
func readableHeader(entry []byte) bool {
	for len(entry) > 0 {
		number, kind, n := protowire.ConsumeTag(entry)
		if n < 0 {
			return false
		}
		length := protowire.ConsumeFieldValue(number, kind, entry[n:])
		if length < 0 {
			return false
		}
		if kind == protowire.BytesType && number <= 2 {
			if text, _ := protowire.ConsumeBytes(entry[n:]); !utf8.Valid(text) {
				return false
			}
		}
		entry = entry[n+length:]
	}
	return true
}

// foreign reports whether it has options that our Producer does not give.
func (e *envelope) foreign() bool {
	return e.retry != push.MaxRetry || e.timeout != defaultTimeout || e.deadline != 0 || e.unique || e.retention != 0 || e.group
}

// unfit is why the job cannot be taken; "" when it can.
func (e *envelope) unfit() string {
	if e.deadline != 0 {
		return "asynq's Deadline is not taken: a notification says expires_at"
	}
	return ""
}

// adopted is the message with the options of our Producer's: of a field that is
// there twice the last one counts.
func adopted(message string) string {
	b := []byte(message)
	for _, f := range []struct {
		number protowire.Number
		value  uint64
	}{{retryField, push.MaxRetry}, {timeoutField, defaultTimeout}, {deadlineField, 0}, {retentionField, 0}} {
		b = protowire.AppendVarint(protowire.AppendTag(b, f.number, protowire.VarintType), f.value)
	}
	for _, number := range []protowire.Number{uniqueField, groupField} {
		b = protowire.AppendBytes(protowire.AppendTag(b, number, protowire.BytesType), nil)
	}
	return string(b)
}
