// One message with twilio-node, which has no base URL: a client of its own sends its requests to
// stint, and names the operation while it is there. autoRetry is on: three more tries after a 429.
import twilio from 'twilio';
import { address, options, report } from './report.mjs';

class ThroughStint extends twilio.RequestClient {
  request(request) {
    const uri = new URL(request.uri);
    const headers = { ...request.headers };
    if (options.key) headers['Idempotency-Key'] = options.key;
    return super.request({
      ...request,
      headers,
      uri: `${address.origin}/twilio${uri.pathname}${uri.search}`,
    });
  }
}

const client = twilio('AC00000000000000000000000000000000', 'token', {
  httpClient: new ThroughStint({ autoRetry: true, maxRetryDelay: 100 }),
});

await report(async () => {
  const message = await client.messages.create({ to: '+1', from: '+2', body: 'hello' });
  return message.sid;
});
