package console

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/internal/operate"
)

const (
	// sessionLife is how long a session lasts at most, and sessionIdle how long it does
	// after it was last used.
	sessionLife = 12 * time.Hour
	sessionIdle = time.Hour
	// sessionStep is what of sessionIdle passes before its end is put off again: not
	// every request writes.
	sessionStep = 5 * time.Minute
)

// A session is what a browser's cookie stands for. It has no rights of its own: they
// are those of its token, as that is configured now.
type session struct {
	Token   string `json:"token"`   // its SHA-256, in hexadecimal digits
	Name    string `json:"name"`    // that it had at the sign-in
	Created int64  `json:"created"` // in µs
}

// Sessions are in Redis, for all processes of the API:
//
//	PREFIX:session:SHA256   a session, as JSON; the hash is that of the cookie's 256
//	                        random bits, so that what is in Redis opens nothing
//
// The key expires when the session does.
type Sessions struct {
	client redis.UniversalClient
	prefix string
}

// NewSessions returns those under the prefix, "pushpace" when it is empty.
func NewSessions(client redis.UniversalClient, prefix string) Sessions {
	return Sessions{client, cmp.Or(prefix, "pushpace") + ":session:"}
}

func (s Sessions) key(id string) string {
	hash := sha256.Sum256([]byte(id))
	return s.prefix + hex.EncodeToString(hash[:])
}

// idLength is that of a cookie's value.
const idLength = 43

// begin returns the cookie's value for a new session of the token.
func (s Sessions) begin(ctx context.Context, token *config.Token) (string, error) {
	bits := make([]byte, 32)
	rand.Read(bits)
	id := base64.RawURLEncoding.EncodeToString(bits)
	value, err := json.Marshal(session{hex.EncodeToString(token.SHA256[:]), token.Name, time.Now().UnixMicro()})
	if err != nil { // it holds texts and a number
		panic(err)
	}
	if err := s.client.Set(ctx, s.key(id), value, sessionIdle).Err(); err != nil {
		return "", fmt.Errorf("begin a session: %w", err)
	}
	return id, nil
}

// find returns the session, nil when there is none, and puts its end off.
func (s Sessions) find(ctx context.Context, id string) (*session, error) {
	if len(id) != idLength {
		return nil, nil
	}
	key := s.key(id)
	pipe := s.client.Pipeline()
	value, left := pipe.Get(ctx, key), pipe.PTTL(ctx, key)
	if _, err := pipe.Exec(ctx); errors.Is(err, redis.Nil) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("find a session: %w", err)
	}
	var found session
	if err := json.Unmarshal([]byte(value.Val()), &found); err != nil {
		return nil, fmt.Errorf("find a session: %w", err)
	}
	rest := sessionLife - time.Since(time.UnixMicro(found.Created))
	if rest <= 0 {
		return nil, nil
	}
	if end := min(rest, sessionIdle); end-left.Val() >= sessionStep {
		_ = s.client.PExpire(ctx, key, end).Err() // a Redis that takes no writes is looked at all the same
	}
	return &found, nil
}

// end ends the session, and returns it; nil when there is none.
func (s Sessions) end(ctx context.Context, id string) (*session, error) {
	if len(id) != idLength {
		return nil, nil
	}
	value, err := s.client.GetDel(ctx, s.key(id)).Bytes()
	if errors.Is(err, redis.Nil) {
		return nil, nil
	}
	var ended session
	if err == nil {
		err = json.Unmarshal(value, &ended)
	}
	if err != nil {
		return nil, fmt.Errorf("end a session: %w", err)
	}
	return &ended, nil
}

// cookieFor returns the cookie, without a value, for who made the request, and whether
// there may be one: over TLS, which a proxy ends perhaps, and on the browser's own
// machine. What the browser calls this machine is what counts: a name that was pointed
// at the loopback is none of its names, and a proxy that changes the Host is told by
// the Origin of a form.
// Source: RFC 6265bis, section 4.1.3.2, for the prefix.
func (c *Console) cookieFor(r *http.Request) (cookie http.Cookie, allowed bool) {
	// Lax: a link in an alert leads to its page, and no GET changes anything.
	cookie = http.Cookie{Name: "__Host-pushpace", Path: "/", Secure: true, HttpOnly: true, SameSite: http.SameSiteLaxMode}
	if r.TLS != nil || c.origin != "" && "https://"+strings.ToLower(r.Host) == c.origin {
		return cookie, true
	}
	if sender := r.Header.Get("Origin"); !operate.FromLoopback(r) || sender != "" && sender != "http://"+r.Host {
		return cookie, false
	}
	cookie.Name, cookie.Secure = "pushpace", false
	return cookie, true
}

// sessionID returns what the request's cookie holds, "" without one.
func (c *Console) sessionID(r *http.Request) string {
	cookie, allowed := c.cookieFor(r)
	if !allowed {
		return ""
	}
	sent, err := r.Cookie(cookie.Name)
	if err != nil {
		return ""
	}
	return sent.Value
}

// identify returns who makes the request.
func (c *Console) identify(ctx context.Context, r *http.Request) (operate.Principal, error) {
	if c.o.Tokens.None() {
		if !operate.FromHere(r) {
			return operate.Principal{}, errNotFromHere
		}
		return operate.LocalPrincipal(), nil
	}
	s, err := c.sessions.find(ctx, c.sessionID(r))
	if err != nil {
		return operate.Principal{}, err
	}
	if s == nil {
		return operate.Principal{}, errSignIn
	}
	var hash config.Hash
	if err := hash.UnmarshalText([]byte(s.Token)); err != nil {
		return operate.Principal{}, errSignIn
	}
	token := c.o.Tokens.Of(hash)
	if token == nil { // it was removed; another process may still have it
		return operate.Principal{}, errSignIn
	}
	return operate.PrincipalOf(token), nil
}
