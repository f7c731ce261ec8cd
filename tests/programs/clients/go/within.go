package main

import (
	"context"
	"encoding/json"
	"os"
	"time"

	"github.com/jackc/pgx/v4"
)

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func main() {
	ctx := context.Background()
	connection, err := pgx.Connect(ctx, "")
	must(err)
	hour := time.Now().Add(-time.Hour)
	rows, err := connection.Query(ctx, "SELECT n FROM orders WHERE snowflake_within(id, $1)", hour)
	must(err)
	found := []int32{}
	for rows.Next() {
		var n int32
		must(rows.Scan(&n))
		found = append(found, n)
	}
	must(rows.Err())
	must(json.NewEncoder(os.Stdout).Encode(map[string]any{"since": found}))
}
