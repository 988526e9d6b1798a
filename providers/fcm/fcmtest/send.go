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
	if wait, ok := s.project.take(project, now); !ok {
		s.overQuota.Add(1)
		s.refuse(w, now, wait, projectQuotaExceeded(project), false)
		return
	}
	request, problem := readRequest(body)
	if problem != nil {
		writeError(w, *problem)
		return
	}
	if wait, ok := s.takeDevice(request, now); !ok {
		s.project.giveBack(project, now)
		s.refuse(w, now, wait, refusals[DeviceQuota], false)
		return
	}
	answer := s.Next(request.device())
	if request.isTokenAsFID() {
		answer = standin.Answer{Status: http.StatusNotFound}
	}
	if answer.Status == http.StatusTooManyRequests {
		s.project.giveBack(project, now)
		s.device.giveBack(request.device(), now)
	}
	s.answer(w, r, project, request, answer)
}

// takeDevice counts a message to its device, if it names a device.
func (s *Server) takeDevice(r request, now time.Time) (wait time.Duration, ok bool) {
	device := r.device()
	if device == "" {
		return 0, true
	}
	if wait, ok := s.device.take(device, now); !ok {
		return wait, false
	}
	if !r.collapsible || s.collapsible.burst.Count == 0 {
		return 0, true
	}
	if wait, ok = s.collapsible.take(device, now); !ok {
		s.device.giveBack(device, now)
	}
	return wait, ok
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
	s.refuse(w, time.Now(), answer.RetryAfter, refusalFor(answer), answer.RetryAfterDate)
}

// refuse writes e, with a Retry-After if wait is not 0.
func (s *Server) refuse(w http.ResponseWriter, now time.Time, wait time.Duration, e refusal, date bool) {
	a := standin.Answer{RetryAfter: wait, RetryAfterDate: date}
	if v := a.RetryAfterHeader(now); v != "" {
		w.Header().Set("Retry-After", v)
	}
	writeError(w, e)
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json; charset=UTF-8")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the client may be gone
}
