// One request with octokit and its retry plugin, whose waits of 1, 4 and 9 s are shortened here.
import { Octokit } from '@octokit/core';
import { retry } from '@octokit/plugin-retry';
import { address, options, report } from './report.mjs';

const octokit = new (Octokit.plugin(retry))({
  auth: 'x',
  baseUrl: `${address.origin}/github`,
  retry: { retryAfterBaseValue: 10 },
  log: { debug() {}, info() {}, warn() {}, error() {} },
});

await report(async () => {
  const reply = await octokit.request('POST /repos/{owner}/{repo}/issues', {
    owner: 'o',
    repo: 'r',
    title: 'hello',
    headers: options.key ? { 'Idempotency-Key': options.key } : {},
  });
  return reply.data.number;
});
