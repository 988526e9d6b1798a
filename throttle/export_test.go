package throttle

// Nodes answers how many nodes the limiter knows.
func (l *Redis) Nodes() int {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return len(l.nodes)
}
