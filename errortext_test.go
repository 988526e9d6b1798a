package pushpace_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
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
	check := func(path string) {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
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
	for _, folder := range []string{"internal", "worker", "cmd", "throttle", "push"} {
		err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
			name := filepath.Base(filepath.Dir(path))
			if err == nil && strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") && !strings.HasSuffix(name, "test") && name != "redisreply" {
				check(path)
			}
			return err
		})
		must(t, err)
	}
	if seen < 1000 {
		t.Errorf("%d functions are there", seen)
	}
}
