package compare

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// The table of docs/limiters.md has every algorithm, with what it lets through at
// worst, its bytes and its commands.
func TestTheTableOfLimiters(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/limiters.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string][]string{}
	for _, m := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\|(.*)\\|$").FindAllStringSubmatch(string(text), -1) {
		rows[m[1]] = strings.Split(m[2], "|")
	}
	if len(rows) != len(Default())+1 || rows["concurrency"] == nil { // which is no limit over time
		t.Errorf("%d rows", len(rows))
	}
	integer := regexp.MustCompile(`\d+`)
	for _, c := range Default() {
		row := rows[c.Name]
		if len(row) != 5 {
			t.Errorf("%s: %q", c.Name, row)
			continue
		}
		n := c.spec.Rates[0].Count // and a bucket's burst
		most := map[string]int{"N": n, "2N": 2 * n, "2N−1": 2*n - 1, "N+B": 2 * n, "N+B−1": 2*n - 1}
		said := strings.TrimSuffix(strings.Fields(row[0])[0], ",")
		if worst, err := c.worst(); err != nil || worst.Most != most[said] {
			t.Errorf("%s: %s, and it is said to be %s: %v", c.Name, worst, said, err)
		}
		a := &Arrivals{at: []int64{0}, key: []int32{0}, keys: 1}
		bytes, commands := c.cost(a, []admission{{}})
		told := 0
		for _, part := range strings.Split(strings.Split(row[2], "(")[0], ",") {
			v, _ := strconv.Atoi(integer.FindString(part))
			told += v
		}
		if first := integer.FindString(row[3]); told != bytes || first != strconv.Itoa(int(commands)) {
			t.Errorf("%s: %d bytes and %v commands, and it is said to be %d and %s", c.Name, bytes, commands, told, first)
		}
		if denied, twice := deniedCommands(c, a), strings.Contains(row[3], "2 when denied"); twice != (denied == 2) {
			t.Errorf("%s: %v commands when denied", c.Name, denied)
		}
	}
}

func deniedCommands(c Contestant, a *Arrivals) float64 {
	_, commands := c.cost(a, nil)
	return commands
}
