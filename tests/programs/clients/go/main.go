package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/jackc/pgx/v4"
)

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func main() {
	ctx := context.Background()
	connection, err := pgx.Connect(ctx, "")
	must(err)
	_, err = connection.Exec(ctx, "CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), n integer)")
	must(err)
	numbers := make([]int32, 500)
	for n := range numbers {
		numbers[n] = int32(n)
	}
	keys := map[int32]string{}
	// recipe
	rows, err := connection.Query(ctx, "INSERT INTO orders (n) SELECT unnest($1::integer[]) RETURNING n, id", numbers)
	must(err)
	for rows.Next() {
		var n int32
		var id int64
		must(rows.Scan(&n, &id))
		keys[n] = fmt.Sprint(id)
	}
	// end
	must(rows.Err())
	must(json.NewEncoder(os.Stdout).Encode(map[string]any{"type": "int64", "keys": keys}))
}
