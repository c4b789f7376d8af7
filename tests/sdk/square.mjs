// One payment with square's SDK, whose key stands in the body.
import { SquareClient } from 'square';
import { address, options, report } from './report.mjs';

const square = new SquareClient({ token: 'x', baseUrl: `${address.origin}/square` });

await report(async () => {
  const reply = await square.payments.create({
    sourceId: 'cnon:card-nonce-ok',
    idempotencyKey: options.key,
    amountMoney: { amount: 100n, currency: 'USD' },
  });
  return reply.payment.id;
});
