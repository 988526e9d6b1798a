package loadtest

import (
	"fmt"
	"io"
	"math"
	"time"

	"github.com/pushpace/pushpace/internal/words"
)

// A Report is the result of a run.
type Report struct {
	// DeliveriesPerS is the rate flat out. PerCore is deliveries for each second of processor
	// time that the workers and Redis used.
	DeliveriesPerS float64 `json:"deliveries_per_s"`
	PerCore        float64 `json:"per_core"`
	// LatenessMS is the time from the first instant at which the limits allowed a notification
	// until a stand-in got it, at half of DeliveriesPerS.
	LatenessMS Lateness `json:"lateness_ms"`
	Violations int      `json:"violations"`
	Lost       int      `json:"lost"`
	Twice      int      `json:"twice"`
	// RSSMB is the most resident memory of a worker, in MiB.
	RSSMB         float64 `json:"rss_mb"`
	Users         int     `json:"users"`
	Notifications int     `json:"notifications"`
	PutOff        int     `json:"put_off"`
	Seconds       float64 `json:"seconds"`
	Machine       Machine `json:"machine"`
	// Faults describe the first violations.
	Faults []string `json:"-"`
}

// Lateness is in milliseconds.
type Lateness struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
}

// Machine describes the machine of a run.
type Machine struct {
	Cores int    `json:"cores"`
	Go    string `json:"go"`
	Redis string `json:"redis"`
}

// Err returns an error if a limit was broken or a notification was lost.
func (r *Report) Err() error {
	if r.Violations == 0 && r.Lost == 0 {
		return nil
	}
	text := fmt.Sprintf("%d violations, %d lost", r.Violations, r.Lost)
	for _, fault := range r.Faults {
		text += "\n" + fault
	}
	return fmt.Errorf("%s", text)
}

// Print writes the report for a person.
func (r *Report) Print(w io.Writer) error {
	_, err := fmt.Fprintf(w, `%s notifications to %s users in %.0f s; limits put off %s of them
deliveries  %s a second flat out; %s for each second of a core that the workers and Redis used
lateness    half within %.1f ms of the first instant that the limits allowed, 99 %% within %.1f ms, at half of that rate
violations  %d
lost        %d
sent twice  %d
memory      %.0f MiB, the larger worker
machine     %d cores, which also ran Redis, the stand-ins and the producer; %s, Redis %s
`, grouped(r.Notifications), grouped(r.Users), r.Seconds, grouped(r.PutOff), grouped(int(r.DeliveriesPerS)), grouped(int(r.PerCore)),
		r.LatenessMS.P50, r.LatenessMS.P99, r.Violations, r.Lost, r.Twice, r.RSSMB, r.Machine.Cores, r.Machine.Go, r.Machine.Redis)
	return err
}

func grouped(n int) string { return words.Grouped(int64(n)) }

// rounded rounds to a tenth.
func rounded(x float64) float64 { return math.Round(x*10) / 10 }

func milliseconds(d time.Duration) float64 { return rounded(d.Seconds() * 1000) }
