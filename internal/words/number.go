package words

import (
	"strconv"
	"strings"
)

// Grouped writes a number with separated thousands: 12,000.
func Grouped[N int | int64 | uint64](n N) string {
	text := strconv.FormatInt(int64(n), 10)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// Counted writes a number with its noun: one for 1, several for any other number.
func Counted[N int | int64](n N, one, several string) string {
	if n == 1 {
		return "1 " + one
	}
	return Grouped(n) + " " + several
}

// Shards writes sorted numbers of shards: 0-2, 7.
func Shards(numbers []int) string {
	var parts []string
	for i := 0; i < len(numbers); {
		first := i
		for i++; i < len(numbers) && numbers[i] == numbers[i-1]+1; {
			i++
		}
		part := strconv.Itoa(numbers[first])
		if i-first > 1 {
			part += "-" + strconv.Itoa(numbers[i-1])
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, ", ")
}
