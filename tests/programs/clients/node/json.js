// For clients whose keys are of the type bigint.
const order = { id: 2125412474722189368n };
let refused = false;
try {
  JSON.stringify(order);
} catch (error) {
  refused = error instanceof TypeError;
}
if (!refused) throw new Error("a bigint needs no method");

// recipe
BigInt.prototype.toJSON = function () { return this.toString(); };
// end

console.log(JSON.stringify(order));
