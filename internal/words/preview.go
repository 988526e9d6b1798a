package words

import (
	"fmt"

	"github.com/pushpace/pushpace/internal/operate"
)

// Preview describes the effect of a changed limit, and how many notifications were examined for it.
func Preview(p *operate.Preview) (all []string) {
	for _, sentence := range []string{previewed(p), covered(p), peak(p)} {
		if sentence != "" {
			all = append(all, sentence)
		}
	}
	return all
}

// previewed describes the effect on the examined notifications.
func previewed(p *operate.Preview) string {
	those := "that wait"
	if !p.All() {
		those = "looked at"
	}
	switch {
	case p.Notifications.At == 0 && p.All():
		return "Nobody waits for these limits."
	case p.Notifications.At == 0:
		return "It is not known what would happen: of those looked at, nobody waits for these limits."
	case p.Sooner+p.Later == 0:
		return fmt.Sprintf("None of the %s %s would leave sooner or later.", Grouped(p.Notifications.At), those)
	}
	at := ""
	if p.AtOnce > 0 {
		at = fmt.Sprintf(", %s of them at once", Grouped(p.AtOnce))
	}
	return fmt.Sprintf("%s of %s %s would leave sooner%s; %s later.", orNone(p.Sooner, "None"), Grouped(p.Notifications.At), those, at, orNone(p.Later, "none"))
}

// covered describes how many notifications were examined; "" for all notifications of one user.
func covered(p *operate.Preview) string {
	if p.User != "" {
		if p.Notifications.All() {
			return ""
		}
		return fmt.Sprintf("The nearest %s of %s were looked at.", Grouped(p.Notifications.At), Grouped(p.Notifications.Of))
	}
	of := Grouped(p.Users.Of)
	if p.Users.More {
		of += " and perhaps more"
	}
	return fmt.Sprintf("%s of %s users looked at.", Grouped(p.Users.At), of)
}

// peak describes how many notifications leave together; "" if nothing waits.
func peak(p *operate.Preview) string {
	switch {
	case p.Notifications.At == 0:
		return ""
	case !p.All():
		return fmt.Sprintf("Of these alone, %s would leave in one second; now it is %s. With the others it may be many more.", Grouped(p.MostAfter), Grouped(p.MostBefore))
	}
	return fmt.Sprintf("At most %s would leave in one second; now it is %s.", Grouped(p.MostAfter), Grouped(p.MostBefore))
}

func orNone(n int, none string) string {
	if n == 0 {
		return none
	}
	return Grouped(n)
}
