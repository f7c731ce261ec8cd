package main

import (
	"encoding/json"
	"os"
)

// recipe
type Order struct {
	ID int64 `json:"id,string"`
}

// end

func main() {
	text, err := json.Marshal(Order{ID: 2125412474722189368})
	if err != nil {
		panic(err)
	}
	var order Order
	if json.Unmarshal(text, &order) != nil || order.ID != 2125412474722189368 {
		panic("read as another one")
	}
	os.Stdout.Write(text)
}
