package push

import "google.golang.org/protobuf/encoding/protowire"

// An Envelope is what matters of asynq's message around a job. asynq keeps the
// message's definition to itself.
type Envelope struct {
	Payload []byte
	// Retried is how often asynq has counted a failure.
	Retried int
}

// The numbers of asynq's TaskMessage's fields.
const (
	payloadField = 2
	retriedField = 6
)

// ReadEnvelope reads asynq's message. It answers false for what is none.
func ReadEnvelope(message []byte) (e Envelope, ok bool) {
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return e, false
		}
		value := message[n:]
		length := protowire.ConsumeFieldValue(number, kind, value)
		if length < 0 {
			return e, false
		}
		switch {
		case number == payloadField && kind == protowire.BytesType:
			e.Payload, _ = protowire.ConsumeBytes(value)
		case number == retriedField && kind == protowire.VarintType:
			retried, _ := protowire.ConsumeVarint(value)
			e.Retried = int(int32(retried)) // as asynq has it
		}
		message = value[length:]
	}
	return e, true
}

// FailedOnceMore is what counts a failure when it is put behind the message: of a
// field that is there twice, the last one counts.
func (e Envelope) FailedOnceMore() []byte {
	more := protowire.AppendTag(nil, retriedField, protowire.VarintType)
	return protowire.AppendVarint(more, uint64(e.Retried)+1)
}
