import { describe, expect, it } from 'vitest'
import { findLinkToken, findReturn } from './Login'

describe('findReturn', () => {
  it('returns to the page that was left, with its filter', () => {
    expect(findReturn(`?back=${encodeURIComponent('/jobs?q=train&view=mine')}`)).toBe('/jobs?q=train&view=mine')
  })

  it.each([
    'https://evil.example/',
    '//evil.example/',
    '/\\evil.example',
    'javascript:alert(1)',
    '/login?back=/',
    // A browser drops tabs and line ends of an address before it reads it.
    '/\t/evil.example/',
    '/\n/evil.example/',
    '/\r\n/evil.example/',
  ])('refuses %j', (back) => {
    expect(findReturn(`?back=${encodeURIComponent(back)}`)).toBe('/')
  })
})

describe('findLinkToken', () => {
  it('reads the token of a link', () => {
    expect(findLinkToken('#token=gpt_a%2Bb')).toBe('gpt_a+b')
    expect(findLinkToken('')).toBeNull()
  })
})
