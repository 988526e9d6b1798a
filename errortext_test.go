package pushpace_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Only internal/base/redisreply classifies an error by its text: in internal, worker, throttle, push
// and cmd, except test support, no other function both reads an error's text and searches a text.
func TestErrorsAreNotParsed(t *testing.T) {
	t.Parallel()
	looks := []string{"Contains", "ContainsAny", "HasPrefix", "HasSuffix", "Cut", "CutPrefix", "CutSuffix", "Index", "Split", "SplitN", "EqualFold", "Fields"}
	seen := 0
	for path, text := range sources(t) {
		folder := filepath.Base(filepath.Dir(path))
		if !inProduct(path) || filepath.Ext(path) != ".go" || strings.HasSuffix(folder, "test") || folder == "redisreply" {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, text, parser.SkipObjectResolution)
		must(t, err)
		for _, declared := range file.Decls {
			f, ok := declared.(*ast.FuncDecl)
			if !ok {
				continue
			}
			takes, looksFor := false, false
			ast.Inspect(f, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok {
					return true
				}
				if callee, ok := call.Fun.(*ast.SelectorExpr); ok {
					of, _ := callee.X.(*ast.Ident)
					takes = takes || callee.Sel.Name == "Error" && len(call.Args) == 0
					looksFor = looksFor || of != nil && of.Name == "strings" && slices.Contains(looks, callee.Sel.Name)
				}
				return true
			})
			if seen++; takes && looksFor {
				t.Errorf("%s: %s looks into an error's text", path, f.Name.Name)
			}
		}
	}
	if seen < 1000 {
		t.Errorf("%d functions are there", seen)
	}
}
