package fcmtest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/pushpace/pushpace/providers/standin"
)

// maxRequest is the longest request that is read, in bytes.
const maxRequest = 64 << 10

// serveSend is the method projects.messages.send.
func (s *Server) serveSend(w http.ResponseWriter, r *http.Request) {
	if r.PathValue("method") != "messages:send" {
		standin.WritePage(w, http.StatusNotFound)
		return
	}
	project := r.PathValue("project")
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
	now := time.Now()
	if err != nil {
		standin.WritePage(w, http.StatusRequestEntityTooLarge)
		return
	}
	s.Begin() // not before: a sender that is late breaks its request off within the body
	defer s.End()
	if s.seen != nil {
		s.seen(body)
	}
	if !s.access.valid(r.Header.Get("Authorization"), now) {
		writeError(w, unauthenticated)
		return
	}
	if !slices.Contains(s.projects, project) {
		writeError(w, permissionDenied(project))
		return
	}
	request, problem := readRequest(body)
	if problem != nil {
		writeError(w, *problem)
		return
	}
	answer := s.Next(request.device())
	if request.isTokenAsFID() {
		answer = standin.Answer{Status: http.StatusNotFound}
	}
	s.answer(w, r, project, request, answer)
}

// answer answers a valid message as the script says.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, project string, request request, answer standin.Answer) {
	name := fmt.Sprintf("projects/%s/messages/fake_message_id", project)
	if answer.Accepts() && !request.validateOnly {
		name = fmt.Sprintf("projects/%s/messages/0:%016x", project, s.names.Add(1))
		s.ledger.Add(standin.Entry{
			At: time.Now(), Platform: "fcm", App: project, Token: request.token, FID: request.fid, Name: name,
			Notification: request.notification, PayloadBytes: request.payloadBytes,
		})
	}
	s.Pause(r, s.latency()+answer.Delay)
	switch answer.Fault {
	case standin.NoFault:
	case standin.Drain:
		w.Header().Set("Connection", "close") // a GOAWAY, in HTTP/2
	case standin.Page:
		standin.WritePage(w, answer.Status)
		return
	default:
		s.Fail(r, answer.Fault)
		return
	}
	if answer.Accepts() {
		w.Header().Set("Content-Type", "application/json; charset=UTF-8")
		_, _ = fmt.Fprintf(w, "{\n  \"name\": %q\n}\n", name)
		return
	}
	if v := answer.RetryAfterHeader(time.Now()); v != "" {
		w.Header().Set("Retry-After", v)
	}
	writeError(w, refusalFor(answer))
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json; charset=UTF-8")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the client may be gone
}
