package standin

import "sync"

// A Script chooses the answer to each push. The zero value is ready to use, and decides by the
// token only. It is safe for concurrent use.
type Script struct {
	mu     sync.Mutex
	tokens map[string][]Answer
	always *Answer
	once   map[string]bool
}

// Respond answers the next pushes to token with answers, one each, in order.
// It replaces the remaining answers of an earlier call.
func (s *Script) Respond(token string, answers ...Answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tokens == nil {
		s.tokens = make(map[string][]Answer)
	}
	s.tokens[token] = answers
	if len(answers) == 0 {
		delete(s.tokens, token)
	}
}

// RespondAlways answers every push with a, unless Respond has an answer for it.
func (s *Script) RespondAlways(a Answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.always = &a
}

// Recover ends RespondAlways.
func (s *Script) Recover() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.always = nil
}

// Next returns the answer to one push to token: that of Respond, RespondAlways or ByToken, in this
// order, otherwise acceptance.
func (s *Script) Next(token string) Answer { return s.NextBy(token, token) }

// NextBy is Next, but ByToken reads code instead of the token.
func (s *Script) NextBy(token, code string) Answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	if left := s.tokens[token]; len(left) > 0 {
		if len(left) == 1 {
			delete(s.tokens, token)
		} else {
			s.tokens[token] = left[1:]
		}
		return left[0]
	}
	if s.always != nil {
		return *s.always
	}
	a, once, ok := ByToken(code)
	if !ok || !once {
		return a
	}
	if s.once[token] {
		return Answer{}
	}
	if s.once == nil {
		s.once = make(map[string]bool)
	}
	s.once[token] = true
	return a
}
