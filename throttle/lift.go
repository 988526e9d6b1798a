package throttle

// lift ends the waiting for limits that are there no more, and tells who waited.
// Of an exempt category nobody waits for the general limits either.
func (v *visit) lift() {
	if v.cat != nil && v.cat.free {
		for _, e := range v.release(v.cat.line, 2) {
			v.reserved.drop(e.name)
		}
	}
	if v.cat != nil && v.cat.exempt {
		for _, e := range v.release(v.cat.booked, 2) {
			if v.all != nil {
				v.all.booked.drop(e.name)
			}
		}
	}
	if v.all != nil && v.all.free {
		v.release(v.all.booked, 1)
		v.reserved.empty()
		if v.cat != nil {
			v.cat.booked.empty()
		}
	}
}

// release empties the set and answers what was in it.
func (v *visit) release(from *set, which int) []named {
	for _, e := range from.list {
		v.moved = append(v.moved, shifted{e.name, v.now, which})
	}
	return from.empty()
}
