package throttle

// Nodes answers how many nodes the limiter knows.
func (l *Redis) Nodes() int {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return len(l.nodes)
}

// Words writes the policy as the script reads it.
func Words(p Policy) string { return p.words() }
