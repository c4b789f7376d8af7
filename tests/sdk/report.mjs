// Runs one call of an SDK and prints what the application gets from it, as one line of JSON.
//
// Each script here is called with stint's address and a JSON object of options, and makes one call.

export const address = new URL(process.argv[2]);
export const options = JSON.parse(process.argv[3] ?? '{}');

export async function report(call) {
  const started = performance.now();
  let outcome;
  try {
    outcome = { ok: true, result: await call() };
  } catch (error) {
    outcome = {
      ok: false,
      type: error.constructor.name,
      code: error.code ?? null,
      status: error.status ?? error.statusCode ?? null,
      message: String(error.message).slice(0, 400),
    };
  }
  outcome.seconds = (performance.now() - started) / 1000;
  process.stdout.write(JSON.stringify(outcome) + '\n', () => process.exit(0));
}
