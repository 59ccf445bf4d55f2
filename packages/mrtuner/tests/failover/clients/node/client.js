// node-postgres with the generated pool. PGHOST and similar variables name the server.
const { Pool } = require("pg")

const query = "SELECT 1"

function open() {
// SNIPPET
return pool
}

async function main() {
  const pool = open()
  const [held, ...idle] = await Promise.all([1, 2, 3].map(() => pool.connect()))
  for (const client of idle) client.release()
  const cases = {
    connect: () => open().query(query),
    idle: () => pool.query(query),
    flight: () => held.query("SELECT pg_sleep(60)"),
  }
  console.log("ready")
  require("readline").createInterface({ input: process.stdin })
    .on("line", (name) => cases[name]().then(
      () => console.log(`${name} answered`),
      (error) => console.log(`${name} failed ${error.message}`)))
    .on("close", () => process.exit())
}

main()
