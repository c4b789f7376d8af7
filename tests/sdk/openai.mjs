// One completion with openai-node, which sends no key.
import OpenAI from 'openai';
import { address, options, report } from './report.mjs';

const openai = new OpenAI({
  apiKey: 'sk-x',
  baseURL: `${address.origin}/openai/v1`,
});

await report(async () => {
  // The SDK tells of a call's own timeout (X-Stainless-Timeout), not of the client's.
  const reply = await openai.chat.completions.create(
    { model: 'm', messages: [{ role: 'user', content: 'hello' }] },
    options.timeout ? { timeout: options.timeout } : {},
  );
  return reply.id;
});
