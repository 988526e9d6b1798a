package console

import (
	"context"
	"fmt"

	"github.com/pushpace/pushpace/internal/overview"
)

// An overviewView is what overview.html shows.
type overviewView struct {
	// Sentence says how everything is.
	Sentence string
	*overview.Overview
}

func (c *Console) overviewPage(ctx context.Context, _ *visit) (page, error) {
	o, err := c.overview.get(ctx)
	if err != nil {
		return page{}, err
	}
	return page{name: "overview", title: "Overview", live: true, data: viewOfOverview(o)}, nil
}

func viewOfOverview(o *overview.Overview) overviewView {
	return overviewView{fmt.Sprintf("%s wait, %d workers run.", group(o.Waiting), len(o.Workers)), o}
}
