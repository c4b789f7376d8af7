// One message with @anthropic-ai/sdk, whole or as a stream; it sends no key.
import Anthropic from '@anthropic-ai/sdk';
import { address, options, report } from './report.mjs';

const anthropic = new Anthropic({ apiKey: 'x', baseURL: `${address.origin}/anthropic` });

await report(async () => {
  const reply = await anthropic.messages.create({
    model: 'm',
    max_tokens: 10,
    messages: [{ role: 'user', content: 'hello' }],
    stream: options.stream ?? false,
  });
  if (!options.stream) return reply.id;
  const events = [];
  for await (const event of reply) events.push(event.type);
  return events;
});
