package console

import (
	"context"
	"errors"

	"github.com/pushpace/pushpace/internal/operate/auditlog"
	"github.com/pushpace/pushpace/internal/words"
)

// actionsPath is the address of the page of actions.
const actionsPath = Path + "actions"

// rowsOfActions is the number of actions on a page.
const rowsOfActions = 100

// An actionsView is the data of actions.html.
type actionsView struct {
	Rows []actionRow
	Next string // the address of the older actions; "" without any
	// Before means that a previous page has newer actions.
	Before bool
}

// An actionRow is one action of an operator.
type actionRow struct {
	auditlog.Entry
	Did, Many string
	What      words.Sentence
}

func (c *Console) actionsPage(ctx context.Context, v *visit) (page, error) {
	all, err := v.as.Actions(ctx, v.query.Get("before"), rowsOfActions)
	if errors.Is(err, auditlog.ErrCursor) {
		return page{}, errBadQuery
	}
	if err != nil {
		return page{}, err
	}
	view := actionsView{Before: v.query.Get("before") != ""}
	for _, e := range all {
		did, what := words.Action(e)
		view.Rows = append(view.Rows, actionRow{e, did, words.Grouped(e.Count), what})
	}
	if len(all) == rowsOfActions {
		view.Next = address(actionsPath, field{"before", all[len(all)-1].Cursor})
	}
	return page{name: "actions", title: "Actions", data: view}, nil
}
