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
	// sessionLife is a session's maximum age, and sessionIdle its maximum time without use.
	sessionLife = 12 * time.Hour
	sessionIdle = time.Hour
	// sessionStep is the part of sessionIdle that must have passed before a request extends the
	// session, so that not every request writes.
	sessionStep = 5 * time.Minute
)

// A session is the state behind a browser's cookie. It has no rights of its own: its token, as
// configured now, decides.
type session struct {
	Token   string `json:"token"`   // the API token's SHA-256, in hexadecimal digits
	Name    string `json:"name"`    // the token's name at the sign-in
	Created int64  `json:"created"` // in µs
}

// Sessions stores sessions in Redis, for all processes of the API:
//
//	PREFIX:session:SHA256   a session, as JSON; the hash is that of the cookie's 256
//	                        random bits, so that a reader of Redis cannot sign in
//
// The key expires when the session does.
type Sessions struct {
	client redis.UniversalClient
	prefix string
}

// NewSessions returns the sessions under the prefix; "" is "pushpace".
func NewSessions(client redis.UniversalClient, prefix string) Sessions {
	return Sessions{client, cmp.Or(prefix, "pushpace") + ":session:"}
}

func (s Sessions) key(id string) string {
	hash := sha256.Sum256([]byte(id))
	return s.prefix + hex.EncodeToString(hash[:])
}

// idLength is the length of a cookie's value.
const idLength = 43

// begin stores a new session of the token, and returns the cookie's value.
func (s Sessions) begin(ctx context.Context, token *config.Token) (string, error) {
	bits := make([]byte, 32)
	rand.Read(bits)
	id := base64.RawURLEncoding.EncodeToString(bits)
	value, err := json.Marshal(session{hex.EncodeToString(token.SHA256[:]), token.Name, time.Now().UnixMicro()})
	if err != nil { // texts and a number always encode
		panic(err)
	}
	if err := s.client.Set(ctx, s.key(id), value, sessionIdle).Err(); err != nil {
		return "", fmt.Errorf("begin a session: %w", err)
	}
	return id, nil
}

// find returns the session and extends it; nil if there is none.
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
		_ = s.client.PExpire(ctx, key, end).Err() // reading must work while Redis rejects writes
	}
	return &found, nil
}

// end deletes the session, and returns it; nil if there is none.
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

// cookieFor returns the session cookie for the request, without a value, and whether it is
// allowed: over TLS, which a proxy may terminate, and on the browser's own machine. The browser's
// name for this machine decides: a foreign host name that resolves to the loopback is refused. A
// proxy that changes the Host is detected by a form's Origin. Source for the prefix: RFC 6265bis,
// section 4.1.3.2.
func (c *Console) cookieFor(r *http.Request) (cookie http.Cookie, allowed bool) {
	// Lax: a link in an alert must open its page, and no GET changes anything.
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

// sessionID returns the value of the request's cookie, "" without one.
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

// identify returns the request's principal.
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
	if token == nil { // the session stays: another process may still know the token
		return operate.Principal{}, errSignIn
	}
	return operate.PrincipalOf(token), nil
}
