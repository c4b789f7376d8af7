// One charge with stripe-node, which sends an Idempotency-Key of its own with each POST.
import Stripe from 'stripe';
import { address, options, report } from './report.mjs';

const stripe = new Stripe('sk_test_x', {
  host: address.hostname,
  port: address.port,
  protocol: 'http',
  telemetry: false,
});

await report(async () => {
  const intent = await stripe.paymentIntents.create(
    { amount: 100, currency: 'eur' },
    options.key ? { idempotencyKey: options.key } : {},
  );
  return intent.id;
});
