// Reads IDs as an application in JavaScript does, and shows what is left of their digits.
//
// Connects by libpq's environment variables, and expects a table ids (plain bigint, exact snowflake) with the same number
// in both columns of a row. Prints a table, with a tab between the columns, which tests/programs/clients.rs checks.
"use strict";

const { Client } = require("pg");

async function main() {
    const client = new Client();
    await client.connect();
    // The ID of the row that an ID finds: another one's, if its digits have become those.
    const found = async (column, id) =>
        (await client.query(`SELECT plain::text AS id FROM ids WHERE ${column} = $1`, [id])).rows[0]?.id ?? "no row";

    // Outside JSON, the driver itself gives both as strings.
    const { rows } = await client.query(
        "SELECT plain::text AS digits, plain, exact, row_to_json(ids) AS json FROM ids ORDER BY ids.plain");
    console.log([
        "digits", "bigint", "snowflake", "bigint in JSON", "row it finds", "snowflake in JSON", "row it finds",
    ].join("\t"));
    for (const { digits, plain, exact, json } of rows) {
        // The driver has given the JSON to JSON.parse. BigInt shows every digit of what that made of it.
        const number = BigInt(json.plain).toString();
        console.log([
            digits,
            `${typeof plain} ${plain}`,
            `${typeof exact} ${exact}`,
            `${typeof json.plain} ${number}`,
            await found("plain", number),
            `${typeof json.exact} ${json.exact}`,
            await found("exact", json.exact),
        ].join("\t"));
    }
    await client.end();
}

main().catch((error) => {
    console.error(error);
    process.exit(1);
});
