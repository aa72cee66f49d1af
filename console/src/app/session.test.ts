import { describe, expect, it } from 'vitest'
import { mayChangeOf } from './session'

describe('mayChangeOf', () => {
  const session = (user: string, ...permissions: string[]) => ({ user, permissions })

  it("is true of what is the viewer's own, and for managers of the tenant", () => {
    expect(mayChangeOf('li', session('li', 'read', 'run'))).toBe(true)
    expect(mayChangeOf('li', session('ada', 'read', 'run', 'manage-tenant'))).toBe(true)
  })

  it("is false of what is a colleague's, and for those who only read", () => {
    expect(mayChangeOf('li', session('ada', 'read', 'run'))).toBe(false)
    expect(mayChangeOf('li', session('li', 'read'))).toBe(false)
    expect(mayChangeOf('li', undefined)).toBe(false)
  })
})
