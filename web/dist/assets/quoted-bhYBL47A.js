function e(e){try{return decodeURIComponent(e)}catch{return e}}function t(e){let t=e.trimEnd().split(`
`),n=t.length;for(;n>0&&(/^\s*>/u.test(t[n-1])||t[n-1].trim()===``);)n--;return n===t.length||!t.slice(n).some(e=>e.startsWith(`>`))?{own:e,quoted:``}:(n>0&&t[n-1].trimEnd().endsWith(`:`)&&n--,{own:t.slice(0,n).join(`
`),quoted:t.slice(n).join(`
`)})}export{e as n,t};