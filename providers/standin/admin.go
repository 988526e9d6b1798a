package standin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"time"

	"github.com/pushpace/pushpace/internal/base/textfile"
)

// Controlled is what the admin endpoint needs of a stand-in.
type Controlled interface {
	Respond(token string, answers ...Answer)
	RespondAlways(a Answer)
	Recover()
	Count() Count
	Ledger() *Ledger
	ExpireTokens()
}

// An Admin serves a stand-in's controls over plain HTTP, for whoever is in
// another process:
//
//	PUT    /script         {"token":"…","answers":[…]}: as Respond does
//	PUT    /always         an answer: as RespondAlways does
//	DELETE /always         as Recover does
//	GET    /counters       the counters, and how many pushes were accepted
//	POST   /expire-tokens  as ExpireTokens does
//
// An answer is an object with status, reason, retry_after, retry_after_date,
// since, delay and fault, all of which may be left out; durations are written as
// "1.5s", since in RFC 3339. An unknown field is refused. There is no
// authentication: it listens on the loopback only, and turns away browsers.
type Admin struct {
	url    string
	server *http.Server
	served chan struct{}
}

// maxAdminRequest bounds a request's body, in bytes.
const maxAdminRequest = 1 << 20

// NewAdmin serves the controls of c at address, an IP address of the loopback
// with a port, which may be 0 for a free one. Close it.
func NewAdmin(address string, c Controlled) (*Admin, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("admin: %q is not an address such as 127.0.0.1:0", address)
	}
	if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() {
		return nil, fmt.Errorf("admin: %q is not on the loopback: want 127.0.0.1 or ::1", address)
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("admin: %w", err)
	}
	a := &Admin{
		url:    "http://" + listener.Addr().String(),
		served: make(chan struct{}),
		server: &http.Server{
			Handler: adminHandler(c), ErrorLog: log.New(io.Discard, "", 0),
			ReadTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second,
		},
	}
	go func() {
		defer close(a.served)
		_ = a.server.Serve(listener) // ends with Close
	}()
	return a, nil
}

// URL returns where the controls are: http, address and port.
func (a *Admin) URL() string { return a.url }

// Close ends the endpoint.
func (a *Admin) Close() error {
	err := a.server.Close()
	<-a.served
	return err
}

func adminHandler(c Controlled) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("PUT /script", func(w http.ResponseWriter, r *http.Request) {
		var script struct {
			Token   string
			Answers []Answer
		}
		switch err := decode(w, r, &script); {
		case err != nil:
			http.Error(w, err.Error(), http.StatusBadRequest)
		case script.Token == "":
			http.Error(w, "token: is missing", http.StatusBadRequest)
		default:
			c.Respond(script.Token, script.Answers...)
			w.WriteHeader(http.StatusNoContent)
		}
	})
	mux.HandleFunc("PUT /always", func(w http.ResponseWriter, r *http.Request) {
		var answer Answer
		if err := decode(w, r, &answer); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		c.RespondAlways(answer)
		w.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("DELETE /always", func(w http.ResponseWriter, _ *http.Request) {
		c.Recover()
		w.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("GET /counters", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(struct {
			Count
			Accepted int `json:"accepted"`
		}{c.Count(), c.Ledger().Len()}) // the client may be gone
	})
	mux.HandleFunc("POST /expire-tokens", func(w http.ResponseWriter, _ *http.Request) {
		c.ExpireTokens()
		w.WriteHeader(http.StatusNoContent)
	})
	return http.NewCrossOriginProtection().Handler(local(mux))
}

// local turns away requests for another host: a page whose name was made to
// point here.
func local(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, err := net.SplitHostPort(r.Host)
		if err != nil {
			host = r.Host
		}
		if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
			http.Error(w, "the host is not this machine", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func decode(w http.ResponseWriter, r *http.Request, v any) error {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxAdminRequest))
	if err == nil {
		body, err = textfile.Decode(body)
	}
	if err != nil {
		return err
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(v); err != nil {
		return err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is more than one value")
	}
	return nil
}
