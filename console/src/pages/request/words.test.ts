import { describe, expect, it } from 'vitest'
import { joinWords, splitWords } from './words'

describe('splitWords', () => {
  it.each([
    ['python train.py --lr 3e-4', ['python', 'train.py', '--lr', '3e-4']],
    [`sh -c 'echo "a b"; ls'`, ['sh', '-c', 'echo "a b"; ls']],
    [`echo "it's \\"x\\"" a\\ b ''`, ['echo', `it's "x"`, 'a b', '']],
    ['  spaced\n out ', ['spaced', 'out']],
    ['', []],
  ])('%s', (line, words) => {
    expect(splitWords(line)).toEqual(words)
  })

  it('refuses a quote without an end', () => {
    expect(() => splitWords(`sh -c 'x`)).toThrow(SyntaxError)
  })

  it('returns what joinWords joined', () => {
    const words = ['a b', "it's", '', '$HOME', 'x=1', '"']
    expect(splitWords(joinWords(words))).toEqual(words)
  })
})
