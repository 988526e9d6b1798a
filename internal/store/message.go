package store

import (
	"errors"
	"math"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
)

// TaskType is the type of our jobs on asynq's queues.
const TaskType = "pushpace:notification"

// MaxRetry is asynq's retry budget for our jobs; it is never used up. asynq archives a job that
// returns on its last attempt before it checks whether that was a failure, so a deferral could lose
// the job. pushpace counts attempts itself.
const MaxRetry = math.MaxInt32 / 2

// An Envelope holds the fields that pushpace reads of asynq's message. asynq does not export the
// definition. Our Producer sets none of asynq's options but the retries. The strings share the
// message's memory.
type Envelope struct {
	Type    string
	Payload string
	Headers map[string]string // nil for none
	// Retry is the number of failures that asynq may count.
	Retry                        uint64
	Timeout, Deadline, Retention uint64
	UniqueKey                    string // "" for a task that is not unique
	Group                        string
}

// The field numbers of asynq's TaskMessage.
const (
	typeField      = 1
	payloadField   = 2
	idField        = 3
	queueField     = 4
	retryField     = 5
	errorField     = 7
	timeoutField   = 8
	deadlineField  = 9
	uniqueField    = 10
	retentionField = 12
	groupField     = 14
	headersField   = 15
)

// defaultTimeout is asynq's default time-out of a job (s).
const defaultTimeout = 1800

// MaxPayload bounds a job's payload, in bytes.
const MaxPayload = 64 << 10

// MaxEnvelopeSize bounds asynq's message, in bytes: a job's payload and ample room for the other
// fields. Longer messages are not read.
const MaxEnvelopeSize = MaxPayload + 64<<10

var errEnvelope = errors.New("asynq cannot read the message")

// ReadEnvelope reads asynq's message as asynq does, and copies nothing. It fails if asynq could not
// read the message either; then the fields before the error are set.
func ReadEnvelope(message string) (Envelope, error) {
	var e Envelope
	if message == "" {
		return e, errEnvelope
	}
	return e, e.read(message)
}

func (e *Envelope) read(message string) error {
	fields := []byte(message) // the conversion does not copy, as nothing writes to fields
	for len(fields) > 0 {
		number, kind, n := protowire.ConsumeTag(fields)
		if n < 0 {
			return errEnvelope
		}
		value := fields[n:]
		length := protowire.ConsumeFieldValue(number, kind, value)
		if length < 0 {
			return errEnvelope
		}
		fields = value[length:]
		switch kind {
		case protowire.VarintType:
			v, _ := protowire.ConsumeVarint(value)
			e.number(number, v)
		case protowire.BytesType:
			v, _ := protowire.ConsumeBytes(value)
			end := len(message) - len(fields)
			if !e.text(number, message[end-len(v):end]) {
				return errEnvelope
			}
		}
	}
	return nil
}

func (e *Envelope) number(number protowire.Number, v uint64) {
	switch number {
	case retryField:
		e.Retry = v
	case timeoutField:
		e.Timeout = v
	case deadlineField:
		e.Deadline = v
	case retentionField:
		e.Retention = v
	}
}

// text sets a field. It reports whether asynq can read it.
func (e *Envelope) text(number protowire.Number, v string) bool {
	switch number {
	case payloadField:
		e.Payload = v
		return true
	case uniqueField:
		e.UniqueKey = v
	case groupField:
		e.Group = v
	case headersField:
		return e.header([]byte(v))
	case typeField:
		e.Type = v
	case idField, queueField, errorField:
	default:
		return true // asynq ignores it too
	}
	return utf8.ValidString(v)
}

// header adds an entry of the headers, and reports whether asynq can read it.
func (e *Envelope) header(entry []byte) bool {
	var texts [2]string // name, value
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
			text, _ := protowire.ConsumeString(entry[n:])
			if !utf8.ValidString(text) {
				return false
			}
			texts[number-1] = text
		}
		entry = entry[n+length:]
	}
	if e.Headers == nil {
		e.Headers = make(map[string]string)
	}
	e.Headers[texts[0]] = texts[1]
	return true
}

// Message returns asynq's message around a job, with our Producer's options, as asynq's client
// writes it. headers may be nil.
func Message(id, queue string, payload []byte, headers map[string]string) []byte {
	b := make([]byte, 0, len(payload)+len(id)+len(queue)+64)
	b = appendText(b, typeField, TaskType)
	b = protowire.AppendBytes(protowire.AppendTag(b, payloadField, protowire.BytesType), payload)
	b = appendText(b, idField, id)
	b = appendText(b, queueField, queue)
	b = appendNumber(b, retryField, MaxRetry)
	b = appendNumber(b, timeoutField, defaultTimeout)
	for name, value := range headers {
		entry := appendText(appendText(nil, 1, name), 2, value)
		b = protowire.AppendBytes(protowire.AppendTag(b, headersField, protowire.BytesType), entry)
	}
	return b
}

func appendText(b []byte, number protowire.Number, text string) []byte {
	return protowire.AppendString(protowire.AppendTag(b, number, protowire.BytesType), text)
}

func appendNumber(b []byte, number protowire.Number, v uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, number, protowire.VarintType), v)
}

// Foreign reports whether the task's type or options differ from our Producer's.
func (e *Envelope) Foreign() bool {
	return e.Type != TaskType || e.Retry != MaxRetry || e.Timeout != defaultTimeout || e.Deadline != 0 || e.UniqueKey != "" || e.Retention != 0 || e.Group != ""
}
