// One message with @slack/web-api, which tries again on any status but 200. Its times between tries
// are shortened here, their number is its own.
import { LogLevel, WebClient } from '@slack/web-api';
import { address, options, report } from './report.mjs';

const slack = new WebClient('xoxb-x', {
  slackApiUrl: `${address.origin}/slack/api/`,
  logLevel: LogLevel.ERROR,
  retryConfig: { retries: 10, minTimeout: 20, maxTimeout: 50 },
  headers: options.key ? { 'Idempotency-Key': options.key } : {},
});

await report(async () => {
  const reply = await slack.chat.postMessage({ channel: 'C1', text: 'hello' });
  return reply.ts;
});
